/** So long may objects work before the gateway's sockets and timers get their turn, in milliseconds. */
const BUSY_MS = 20;

/**
 * When a timer was set that has not fired yet; undefined: none is set. One for the whole isolate, since all of its
 * objects and the gateway share one thread.
 */
let waitingSince: number | undefined;

/**
 * Lets others in between two slices of long work. Every loop of an object calls this in each round.
 *
 * `scheduler.wait(0)` lets calls in that have arrived. It is not enough: workerd looks at its sockets and timers only
 * when nothing is ready to run, and objects at work that call each other leave no such moment. So a timer is set, and if
 * it has not fired after a while, whoever comes here really pauses, for a timer that is not due yet. An isolate that has
 * such moments by itself never pauses, and small slices do not pay for it. The time is the isolate's and not the
 * object's: objects that pause one after the other never leave the thread idle.
 */
export async function yieldToOthers(): Promise<void> {
  await scheduler.wait(0);
  const now = Date.now();
  if (waitingSince === undefined) {
    waitingSince = now;
    void scheduler.wait(1).then(fired);
    return;
  }
  const waitedMs = now - waitingSince;
  // A clock that was set back must not put the pause off.
  if (waitedMs >= 0 && waitedMs < BUSY_MS) return;
  // Not that timer: it is of another object, which may be gone.
  await scheduler.wait(1);
  fired();
}

function fired(): void {
  waitingSince = undefined;
}
