/** Loaded before a program (`--import`): its clock is wrong by SLUICE_TEST_CLOCK_SHIFT_MS. */
const shiftMs = Number(process.env.SLUICE_TEST_CLOCK_SHIFT_MS);
const now = Date.now;

globalThis.Date = new Proxy(Date, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [now() + shiftMs] : args, newTarget),
  apply: () => String(new Date()),
  get: (target, name, receiver) =>
    name === "now" ? () => now() + shiftMs : Reflect.get(target, name, receiver),
});
