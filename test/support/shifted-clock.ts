import { readFileSync } from "node:fs";

/**
 * Loaded before a program (`--import`): its clock is wrong by SLUICE_TEST_CLOCK_SHIFT_MS, or by what the file SLUICE_TEST_CLOCK_FILE
 * says at the time, so that a test can set it.
 */
const { SLUICE_TEST_CLOCK_FILE: file, SLUICE_TEST_CLOCK_SHIFT_MS: fixed } = process.env;
const now = () => realNow() + Number(file ? readFileSync(file, "utf8") : fixed);
const realNow = Date.now;

globalThis.Date = new Proxy(Date, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
  apply: () => String(new Date()),
  get: (target, name, receiver) => (name === "now" ? now : Reflect.get(target, name, receiver)),
});
