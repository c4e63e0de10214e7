import { Control } from "../../../support/control.ts";
import { type Answer, isGone, signedExchange } from "../../../support/http.ts";
import type { Door } from "../../../support/keys.ts";
import type { Gate } from "./gate.ts";
import { Unexpected } from "./history.ts";
import type { Told } from "./life.ts";

/** The header that says what is said of a commit. */
export function saidOf(id: string): Record<string, string> {
  return { "x-sluice-commit-message": id };
}

/** Asks a gateway that dies: a bare client, and one that asks again until it is answered. */
export class Client {
  readonly #door: Door;
  readonly #control: Control;
  readonly #gate: Gate;

  constructor(door: Door, gate: Gate) {
    this.#door = door;
    this.#control = new Control(door);
    this.#gate = gate;
  }

  /** One S3 request, once. */
  s3(
    method: string,
    target: string,
    { headers = {}, body }: { headers?: Record<string, string>; body?: Uint8Array | string } = {},
  ): Promise<Answer> {
    return signedExchange(this.#door, { method, target, headers, ...(body !== undefined && { body }) });
  }

  /** One request to the control API, once. */
  control(method: string, path: string, body?: unknown): Promise<Answer> {
    return this.#control.ask(method, path, body);
  }

  /** Asks until the gateway answers something but that it can't just now, over its deaths. */
  async until(ask: () => Promise<Answer>): Promise<Answer> {
    return this.#gate.again(async () => {
      const answer = await ask();
      if (isAway(answer)) throw away();
      return answer;
    });
  }
}

/** What a gateway answers that starts, or whose objects are just being ended. */
export function isAway({ status }: Answer): boolean {
  return status === 503;
}

/** The answer of a write: good, or that the gateway can't just now. */
export function wrote(answer: Answer, good: readonly number[] = [200, 204]): Told {
  if (isAway(answer)) return { kind: "unknown" };
  if (!good.includes(answer.status) || answer.text.includes("<Error>")) throw unexpected(answer);
  return { kind: "wrote", version: answer.headers["x-amz-version-id"] ?? null };
}

export function unexpected({ status, text }: Answer): Unexpected {
  return new Unexpected(`was answered ${status} ${text.slice(0, 400)}`);
}

/** What a client sees of a gateway that is gone. */
function away(): Error {
  const error = Object.assign(new Error("the gateway can't just now"), { code: "ECONNRESET" });
  if (!isGone(error)) throw new Error("a gateway that is gone is not seen as such");
  return error;
}

export const S3_TAG = /^"?([0-9a-f]{64})-\d+"?$/;
