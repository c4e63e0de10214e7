/** How often the worker of a datum or task may vanish in one job before that is taken to be the reason. */
export const MAX_LOSSES = 10;
/** Expired leases swept in one transaction. */
export const SWEEP = 500;
