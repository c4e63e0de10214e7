import { type Ask, answer, good, unsigned } from "../support.ts";

/** One request that nobody signed, and its answer. */
export function anybody(line: string, headers: Record<string, string> = {}): Promise<Response> {
  return answer(unsigned(line, headers));
}

/** All that somebody learns from an answer, but for what names the request itself. */
export async function told(response: Response, resource: string): Promise<unknown> {
  const headers = [...response.headers].filter(([name]) => name !== "x-amz-request-id").toSorted();
  const body = (await response.text())
    .replace(resource, "<resource>")
    .replace(response.headers.get("x-amz-request-id") ?? "", "<id>");
  return { status: response.status, headers, body };
}

/** Makes a public branch `/<bucket>` with these files. */
export async function publicBranch(
  bucket: string,
  files: Readonly<Record<string, string>> = {},
): Promise<void> {
  await good(`PUT ${bucket}`, { headers: { "x-amz-acl": "public-read" } });
  await putAll(bucket, files);
}

export async function putAll(
  bucket: string,
  files: Readonly<Record<string, string>>,
  ask: Ask = {},
): Promise<void> {
  for (const [key, body] of Object.entries(files)) await good(`PUT ${bucket}/${key}`, { ...ask, body });
}
