import { s3Error } from "../answer/errors.ts";
import { xmlBody } from "../answer/xml.ts";
import { fileBody } from "../body/open-body.ts";
import { writeObject } from "../objects/put-object.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { encodeUriPath } from "../request/target.ts";
import type { OpenForm } from "./open-form.ts";

/** A form that was posted to a bucket: `headers` are its fields, as a PUT of the object would send them. */
export interface FormRequest extends ObjectRequest {
  readonly form: OpenForm;
  /** The request's URL without its query. */
  readonly resource: string;
}

/**
 * The file of a form as an object. It is a PutObject whose headers are the form's fields and whose body is the file: bytes first,
 * name second, and the name only if the file is as large as the policy allows.
 */
export const postObject: Operation<FormRequest> = {
  permission: "write",
  tellsEncryption: true,

  async handle(request) {
    const { form, headers } = request;
    const { min } = form.sizes;
    const written = await writeObject(request, {
      openBody: () => fileBody(form.file, headers),
      check: ({ size }) => {
        if (size >= min) return;
        throw s3Error.EntityTooSmall("Your proposed upload is smaller than the minimum allowed size", {
          more: { ProposedSize: size, MinSizeAllowed: min },
        });
      },
    });
    return answer(request, written);
  },
};

function answer(
  { form, key, bucket, resource }: FormRequest,
  written: Readonly<Record<string, string>>,
): Response {
  const { fields } = form;
  const etag = written.etag ?? "";
  const redirect = redirectTo(fields.get("success_action_redirect") ?? fields.get("redirect"), {
    bucket,
    key,
    etag,
  });
  if (redirect !== undefined)
    return new Response(null, { status: 303, headers: { ...written, location: redirect } });
  const location = `${resource.replace(/\/$/, "")}/${encodeUriPath(key)}`;
  const headers = { ...written, location };
  switch (fields.get("success_action_status")) {
    case "200":
      return new Response(null, { headers });
    case "201":
      return new Response(
        xmlBody("PostResponse", { Location: location, Bucket: bucket, Key: key, ETag: etag }),
        {
          status: 201,
          headers: { ...headers, "content-type": "application/xml" },
        },
      );
    // S3 takes any other value for none.
    default:
      return new Response(null, { status: 204, headers });
  }
}

/** The page to go to, which learns what was made from its query. Undefined if none is named: a text that is no URL of the web counts as none, as on S3. */
function redirectTo(
  text: string | undefined,
  made: { readonly bucket: string; readonly key: string; readonly etag: string },
): string | undefined {
  const url = text === undefined ? null : URL.parse(text);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) return undefined;
  for (const [name, value] of Object.entries(made)) url.searchParams.append(name, value);
  return url.href;
}
