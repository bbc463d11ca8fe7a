// A policy that does what its setting says, for the tests: in the form of an exported one.
const answer = { class: { tag: 'transient' }, verdict: { tag: 'retry' }, delay: 0 };

const DOES = {
  loops: () => {
    for (;;);
  },
  traps: () => ({ broken: { kind: 'trapped', text: 'the policy failed in delay: unreachable' }, log: [] }),
  'waits-too-long': () => ({ answer: { ...answer, delay: 15 * 86_400_000 }, log: [] }),
  'has-no-reason': () => ({ answer: { ...answer, verdict: { tag: 'dead-letter', val: ' ' } }, log: [] }),
  discards: () => ({ answer: { class: { tag: 'other', val: 'cart' }, verdict: { tag: 'discard', val: 'old' } }, log: [{ level: 'info', message: 'x' }] }),
  'is-down': () => ({ answer: { ...answer, downFor: 60_000 }, log: [] }),
};

export default {
  name: 'odd',
  version: '1.0.0',
  digest: `sha256:${'0'.repeat(64)}`,
  url: import.meta.url,
  pure: false,
  load: async () => ({
    // The ordinary failure, with which a retrier tries a policy, breaks it in no case.
    evaluate: ({ messageId }, { settings }) => (messageId === 'm-1' ? { answer, log: [] } : DOES[settings.does]()),
  }),
};
