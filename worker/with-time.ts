/**
 * A refusal tells the time, from which clients whose clock is wrong learn to sign by ours, as those of AWS do. On
 * Cloudflare every answer has it; elsewhere none has.
 */
export function withTime(answer: Response, now: number): Response {
  if (answer.status === 403) answer.headers.set("date", new Date(now).toUTCString());
  return answer;
}
