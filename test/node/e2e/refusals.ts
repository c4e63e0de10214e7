import { expect } from "vitest";
import { ErrorBody } from "../../../protocol/errors.ts";
import { Control } from "../../support/control.ts";
import type { Answer } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { S3 } from "../../support/s3.ts";

/** What there is in a gateway whose tests use the bucket `master.data`, to see that refused requests left it alone. */
export async function everythingIn(door: Door): Promise<object> {
  const [s3, control] = [new S3(door), new Control(door)];
  return {
    buckets: await s3.buckets(),
    keys: await s3.keys("master.data"),
    head: await s3.headCommit("master.data"),
    pipelines: await control.pipelineNames(),
  };
}

/** The body of a refusal by the control API: a 4xx with JSON of the promised shape. */
export function refusedJson(answer: Answer): ErrorBody {
  expect([400, 404, 409, 413], answer.text).toContain(answer.status);
  return ErrorBody.parse(JSON.parse(answer.text));
}

/** The code of an S3 error; empty where there is none. */
export function xmlCode({ text }: Answer): string {
  return /<Code>(.*?)<\/Code>/.exec(text)?.[1] ?? "";
}

/** The sentence of an S3 error; empty where there is none. */
export function xmlMessage({ text }: Answer): string {
  return /<Message>(.*?)<\/Message>/s.exec(text)?.[1] ?? "";
}
