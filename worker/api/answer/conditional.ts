/**
 * JSON with an ETag of what it says, or 304 if the caller has that already. Who asks again and again is then told only of
 * what is new. `fleeting`: what differs each time although nothing is new. It is in the answer, also in place of what the
 * body has by the same name, and not in its ETag.
 */
export async function conditionalJson(
  request: Request,
  { body, fleeting }: { readonly body: object; readonly fleeting?: object },
): Promise<Response> {
  const text = new TextEncoder().encode(JSON.stringify(body));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", text)).slice(0, 16);
  const etag = `W/"${[...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("")}"`;
  const headers = { etag, "cache-control": "no-store" };
  if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
  return Response.json({ ...body, ...fleeting }, { headers });
}
