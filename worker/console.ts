import { ownPath } from "../protocol/names.ts";

/*
 * The web console: files that the build made, and nothing of anybody's data. Whoever opens it gets the same page, without a
 * signature. It asks for a key, has it make a session, keeps that in the database of its origin (console/gateway/kept-session.ts), and
 * signs each request to the control API and to S3 itself.
 *
 * Branches are served from the same host, and a public one may hold any HTML. So objects are sandboxed there: their pages are
 * of an origin of their own, which has no database of ours (s3/objects/get-object.ts). Should a page of the same origin come to be all the same, nobody
 * may frame the console, and it shares no browsing context with whoever opened it (COOP).
 */

const CONSOLE = ownPath("console");
const ASSETS = `${CONSOLE}/assets/`;
/** A name that the build may give: no folder, no dot in front. */
const FILE = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$/;

const TYPES: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
};

/**
 * Scripts and styles come from the console's own files alone: no text of a file or of a log can become one, and no file of a
 * public branch, which has the same origin. A source with a path needs a host, and behind a proxy the gateway does not
 * know which one the browser sees. So there are two policies, and what is loaded must pass both: the first one says
 * which origin, the second one which paths.
 */
const POLICY = [
  "default-src 'self'",
  "img-src 'self' blob: data:",
  "media-src 'self' blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "object-src 'none'",
  "frame-ancestors 'none'",
].join("; ");
const OWN_FILES = [`script-src *:*${ASSETS}`, `style-src *:*${ASSETS}`].join("; ");

const HEADERS = {
  "content-security-policy": `${POLICY}, ${OWN_FILES}`,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** Whether a request is for the console. */
export function isConsolePath(path: string): boolean {
  return path === CONSOLE || path.startsWith(`${CONSOLE}/`);
}

/** Answers with a file of the console; a path that names none is one of its pages, which the script in the page finds. */
export async function answerConsole(
  { method }: Request,
  { path, assets }: { readonly path: string; readonly assets: Fetcher | undefined },
): Promise<Response> {
  if (method !== "GET" && method !== "HEAD") {
    return plain(405, "The console is read with GET or HEAD.\n", { allow: "GET, HEAD" });
  }
  const isAsset = path.startsWith(ASSETS);
  const name = isAsset ? path.slice(ASSETS.length) : "index.html";
  const found = assets && FILE.test(name) ? await assets.fetch(`http://console/${name}`) : undefined;
  if (found?.status !== 200) {
    await found?.body?.cancel();
    return plain(404, isAsset ? "The console has no such file.\n" : "This gateway has no console.\n");
  }
  const isHead = method === "HEAD";
  if (isHead) await found.body?.cancel();
  return new Response(isHead ? null : found.body, {
    headers: {
      ...HEADERS,
      "content-type": TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream",
      // The names of assets change with their content; the page names them.
      "cache-control": isAsset ? "public, max-age=31536000, immutable" : "no-cache",
    },
  });
}

function plain(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(text, {
    status,
    headers: { ...HEADERS, "content-type": "text/plain; charset=utf-8", ...headers },
  });
}
