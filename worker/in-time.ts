/** What does not answer for so long is taken to be away; milliseconds. */
const PATIENCE_MS = 5000;

/** Rejects if it takes too long. What was asked goes on, and nobody hears of it. */
export async function inTime<T>(asked: Promise<T>, patienceMs = PATIENCE_MS): Promise<T> {
  asked.catch(() => {});
  const late = scheduler.wait(patienceMs).then(() => {
    throw new Error(`it did not answer within ${patienceMs / 1000} s`);
  });
  late.catch(() => {});
  return await Promise.race([asked, late]);
}
