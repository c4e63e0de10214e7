/** What does not answer for so long is taken to be away; milliseconds. */
const PATIENCE_MS = 5000;

/** Rejects if it takes too long. What was asked goes on, and nobody hears of it. */
export async function inTime<T>(asked: Promise<T>): Promise<T> {
  asked.catch(() => {});
  const late = scheduler.wait(PATIENCE_MS).then(() => {
    throw new Error(`it did not answer within ${PATIENCE_MS / 1000} s`);
  });
  late.catch(() => {});
  return await Promise.race([asked, late]);
}
