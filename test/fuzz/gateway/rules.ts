import { XMLValidator } from "fast-xml-parser";
import { ErrorBody } from "../../../protocol/errors.ts";
import type { RawAnswer } from "./wire.ts";

/** What no client should ever read: frames of a stack, names of errors of the language and of the platform. */
const INTERNAL =
  /\.(ts|js|mjs):\d+|\n\s+at |\b(TypeError|ReferenceError|RangeError|SyntaxError|ZodError|SQLITE_\w+|D1_ERROR|workerd|DurableObject)\b|\[object |node:internal/;
/** Refusals by what stands in front of the Worker, for what is no request of HTTP. */
const OF_HTTP = [400, 408, 411, 413, 414, 431, 501, 505];

/** What is wrong with an answer, whatever was asked; undefined if nothing is. */
export function faultOf(
  answer: RawAnswer,
  { method, api }: { method: string; api: boolean },
): string | undefined {
  const { status, headers, body } = answer;
  const text = body.toString();
  if (!headers.has("x-amz-request-id") && (status >= 400 || !api)) {
    return OF_HTTP.includes(status)
      ? undefined
      : `an answer of ${status} without a request's id: ${text.slice(0, 300)}`;
  }
  if (status >= 500 && status !== 501 && status !== 503) return `${status}: ${text.slice(0, 500)}`;
  if (method === "HEAD" || body.length === 0) return undefined;
  const type = headers.get("content-type") ?? "";
  if (status < 400) return type === "application/xml" ? xmlFault(text) : undefined;
  if (INTERNAL.test(text)) return `it tells of the inside: ${text.slice(0, 500)}`;
  return api ? jsonFault(text) : type.startsWith("text/plain") ? undefined : errorFault(text);
}

function xmlFault(text: string): string | undefined {
  const valid = XMLValidator.validate(text.trim());
  if (valid !== true) return `no XML: ${valid.err.msg}: ${text.slice(0, 300)}`;
  // Of XML 1.0, production `Char`.
  return /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u.test(text)
    ? `no character of XML: ${text.slice(0, 300)}`
    : undefined;
}

function errorFault(text: string): string | undefined {
  const hasWords = /<Error>.*<Code>\w+<\/Code>\s*<Message>[^<]*\w[^<]*<\/Message>/s.test(text);
  return xmlFault(text) ?? (hasWords ? undefined : `no error of S3: ${text.slice(0, 300)}`);
}

function jsonFault(text: string): string | undefined {
  try {
    const { error } = ErrorBody.parse(JSON.parse(text));
    return /\w/.test(error.message) ? undefined : "an error without a message";
  } catch {
    return `no error of the control API: ${text.slice(0, 300)}`;
  }
}
