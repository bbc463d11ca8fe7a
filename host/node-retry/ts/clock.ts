/** Has the time, and waits. */
export interface Clock {
  /** Milliseconds that only grow. */
  now(): number;
  /** Milliseconds since 1970. */
  time(): number;
  /** Calls the function once after so many milliseconds, unless the returned one is called before. */
  timer(milliseconds: number, done: () => void): () => void;
}

/** The longest time that a timer takes. */
const LONGEST = 2 ** 31 - 1;

/** The clock and the timers of the runtime. */
export const systemClock: Clock = {
  now: () => performance.now(),
  time: () => Date.now(),
  timer(milliseconds, done) {
    const { setImmediate, clearImmediate } = globalThis;
    if (milliseconds === 0 && setImmediate) {
      const immediate = setImmediate(done);
      return () => clearImmediate(immediate);
    }
    let left = milliseconds;
    let timer: ReturnType<typeof setTimeout>;
    const wait = () => {
      const next = Math.min(left, LONGEST);
      left -= next;
      timer = setTimeout(left > 0 ? wait : done, Math.ceil(next));
    };
    wait();
    return () => clearTimeout(timer);
  },
};
