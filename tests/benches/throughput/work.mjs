// What the sides in Node.js do with a message: its body is its number, which says whether it fails.
export const fails = (body, failing) => (Number(body) % 10) * 10 < Number(failing);

// A millisecond: the event loop does nothing else meanwhile.
const computes = () => {
  const until = performance.now() + 1;
  while (performance.now() < until);
};

export const WORK = {
  none: () => {},
  waits: () => new Promise((resolve) => setTimeout(resolve, 2)),
  computes,
};
