import { z } from "zod";
import { Name } from "./names.ts";

/** `GET /api/v1/repos`: by name. */
export const RepoList = z.object({
  repos: z.array(z.object({ name: z.string(), branches: z.array(z.string()) })),
});
export type RepoList = z.infer<typeof RepoList>;

/** Who alone may write to a protected branch: one access key, by its id, or the jobs of the pipeline whose output it is. */
export const BranchWriter = z.union([
  z.strictObject({ key: z.string().min(1).max(128) }),
  z.strictObject({ pipeline: Name }),
]);
export type BranchWriter = z.infer<typeof BranchWriter>;

/** `GET /api/v1/repos/{repo}/branches`: by name; times in milliseconds since 1970. */
export const BranchList = z.object({
  branches: z.array(
    z.object({
      name: z.string(),
      createdAt: z.int(),
      /** Whether it answers reads without a signature. Absent: the gateway is of a release that does not have that. */
      public: z.boolean().optional(),
      /** Null: it is not protected. Absent: as above. */
      writer: BranchWriter.nullable().optional(),
    }),
  ),
});
export type BranchList = z.infer<typeof BranchList>;

/** `PUT /api/v1/repos/{repo}/branches/{branch}/public`: whether reads need no signature. The answer repeats it. */
export const BranchPublic = z.strictObject({ public: z.boolean() });
export type BranchPublic = z.infer<typeof BranchPublic>;

/** `PUT /api/v1/repos/{repo}/branches/{branch}/writer`: who alone may write; null: whoever may write in the repo. The answer repeats it. */
export const BranchProtection = z.strictObject({ writer: BranchWriter.nullable() });
export type BranchProtection = z.infer<typeof BranchProtection>;
