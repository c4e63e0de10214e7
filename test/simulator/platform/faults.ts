/** What may go wrong, decided each time that it could. */
export interface Faults {
  failsToFlush(): boolean;
  losesCall(object: string, call: string): boolean;
  losesAnswer(object: string, call: string): boolean;
  /** Of D1, of the blob store: before anything was done, or after. */
  failsBefore(store: string): boolean;
  failsAfter(store: string): boolean;
  /** How much later than it was set for an alarm rings; milliseconds. */
  alarmLateMs(): number;
}

/** Nothing goes wrong. */
export const NO_FAULTS: Faults = {
  failsToFlush: () => false,
  losesCall: () => false,
  losesAnswer: () => false,
  failsBefore: () => false,
  failsAfter: () => false,
  alarmLateMs: () => 0,
};
