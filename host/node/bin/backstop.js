#!/usr/bin/env node
// Runs the program that the package of this platform has.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@backstop-sqs/${process.platform}-${process.arch}`;

function program() {
  try {
    return require.resolve(`${name}/bin/backstop`);
  } catch {
    console.error(
      `backstop: ${name} is not installed. backstop-sqs runs on Linux, on x64 and arm64. ` +
        "There, install it without --omit=optional or --no-optional.",
    );
    process.exit(1);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });

// A terminal signals both, and the program takes what comes at the same time for one signal.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => child.kill(signal));
}

child.on("error", (error) => {
  console.error(`backstop: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
