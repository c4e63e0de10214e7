/**
 * A refusal tells the time. Clients whose clock is wrong, such as those of AWS, then sign by our clock. On Cloudflare every
 * answer has the time anyway; elsewhere none has.
 */
export function withTime(answer: Response, now: number): Response {
  if (answer.status === 403) answer.headers.set("date", new Date(now).toUTCString());
  return answer;
}
