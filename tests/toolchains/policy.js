// A policy in JavaScript, as componentize-qjs builds it: it writes to stderr, looks into the payload and throws when it is told to.
import { log } from 'backstop:policy/log@0.1.0';
import { get } from 'backstop:policy/payload@0.1.0';

let base = 1000;

export const settings = {
  configure(settings) {
    for (const [name, value] of settings) {
      if (name !== 'base') throw `unknown setting ${name}`;
      base = Number(value);
    }
  },
};

export const classifier = {
  classify(error) {
    if (error.code === 'Crash') throw new Error('told to crash');
    return error.code === 'OutOfStock' ? { tag: 'other', val: 'stock' } : { tag: 'transient' };
  },
};

export const backoff = {
  delay(failure, _class) {
    log('info', `tenant ${get('/tenant')}`);
    return Math.floor(base * failure.attempt * (1 + failure.random));
  },
};

export const deadLettering = {
  judge(failure, errorClass) {
    return errorClass.tag === 'other' ? { tag: 'dead-letter', val: `no stock after ${failure.age} ms` } : { tag: 'retry' };
  },
};
