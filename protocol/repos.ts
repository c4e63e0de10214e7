import { z } from "zod";
import { CommitName, Name } from "./names.ts";

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

/** How much of a branch that is made from a commit of another one is there: files and empty directories. */
const Forking = z.object({ copied: z.int(), total: z.int() });
export type Forking = z.infer<typeof Forking>;

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
      /** Set while it can't be read yet. */
      forking: Forking.optional(),
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

/** `POST /api/v1/repos/{repo}/branches` */
export const CreateBranch = z.strictObject({
  name: Name,
  /** What it is to have. Absent: nothing. */
  from: z
    .strictObject({
      repo: Name,
      branch: Name,
      /** An id, or a tag. Absent: the newest one. */
      commit: CommitName.optional(),
    })
    .optional(),
});
export type CreateBranch = z.infer<typeof CreateBranch>;

/** `GET /api/v1/repos/{repo}/branches/{branch}`, and the answer to its creation. */
export const BranchDetail = z.object({
  name: z.string(),
  createdAt: z.int(),
  /** The newest commit; null if there is none. */
  head: z.string().nullable(),
  /** What it was made from; null if from nothing. `commit` is null if the other branch had none. */
  from: z.object({ repo: z.string(), branch: z.string(), commit: z.string().nullable() }).nullable(),
  /** Null: it can be read. */
  forking: Forking.nullable(),
});
export type BranchDetail = z.infer<typeof BranchDetail>;
