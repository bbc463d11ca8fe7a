// What the engine runs: the policy, with its numbers mended and the words of its exceptions first. Made by every build.
import { log } from 'backstop:policy/log@0.1.0';

/** A function of what the policy exports. */
function method(object, exported, name) {
  if (typeof object?.[name] !== 'function') throw new TypeError(`\`${exported}\` has no function \`${name}\``);
  return (...given) => object[name](...given);
}

/** The same. What it throws is logged before the engine adds words of its own. */
function told(answer) {
  return (...given) => {
    try {
      return answer(...given);
    } catch (thrown) {
      const words = thrown instanceof Error ? `${thrown}\n${thrown.stack ?? ''}` : `${thrown} was thrown`;
      for (const line of words.split('\n')) if (line.trim() && !line.includes('/bindings/entry.js')) log('error', line);
      throw thrown;
    }
  };
}

/** The engine hands over a u32 as a signed number: one from 2^31 on as less by 2^32. */
function error(given) {
  if (given.retryAfter != null) given.retryAfter >>>= 0;
  return given;
}

function failure(given) {
  given.attempt >>>= 0;
  given.age >>>= 0;
  if (given.previousDelay != null) given.previousDelay >>>= 0;
  error(given.error);
  return given;
}

/** It takes a u32 back in the same way. A fraction is rounded up, so that no wait is shorter than meant; what is over 2^32 - 1 becomes that, which the host refuses. */
function milliseconds(delay) {
  if (typeof delay !== 'number' || !(delay >= 0)) throw new TypeError(`\`delay\` answered ${String(delay)}: expected a number of milliseconds from 0`);
  return Math.min(Math.ceil(delay), 0xffffffff) | 0;
}
