import { S3Error } from "../../answer/errors.ts";
import { branchFailure } from "../../answer/failures.ts";
import { xmlAnswer } from "../../answer/xml.ts";
import type { BucketRequest, Operation } from "../../operation.ts";
import { corsTags } from "./cors-document.ts";
import { CORS_OF_BRANCH } from "./put-bucket-cors.ts";

/** The rules as they were put. */
export const getBucketCors: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: CORS_OF_BRANCH,

  async handle({ branch }) {
    const settings = await branch.settings();
    if (!settings.ok) throw branchFailure(settings);
    if (settings.cors === null) throw new S3Error("NoSuchCORSConfiguration");
    return xmlAnswer("CORSConfiguration", corsTags(settings.cors));
  },
};
