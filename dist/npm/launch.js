#!/usr/bin/env node
// Starts the binary of the package for this machine. Nothing is downloaded, here or on install.
"use strict";

const { spawn } = require("node:child_process");

const name = `@SCOPE@/ralph-${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/bin/ralph`);
} catch {
  console.error(`ralph: the package ${name} is not installed.`);
  console.error("hint: install again without --no-optional or --omit=optional; if there is no build");
  console.error("for this machine, `cargo install` makes one.");
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`ralph: cannot start ${binary}: ${error.message}`);
  process.exit(1);
});
// A signal to the group reaches the binary as well; one to this process alone is passed on.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
