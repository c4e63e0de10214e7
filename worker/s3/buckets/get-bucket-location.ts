import { branchFailure } from "../answer/failures.ts";
import { LOCATION } from "../answer/filler.ts";
import { xmlAnswer } from "../answer/xml.ts";
import type { BucketRequest, Operation } from "../operation.ts";

/** The same for every bucket (spec §4.1). */
export const getBucketLocation: Operation<BucketRequest> = {
  permission: "list",
  query: ["location"],

  async handle({ tree }) {
    const status = await tree.status();
    if (!status.ok) throw branchFailure(status);
    return xmlAnswer("LocationConstraint", LOCATION);
  },
};
