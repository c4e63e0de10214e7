import { z } from "zod";

/** `GET /api/v1/repos`: by name. */
export const RepoList = z.object({
  repos: z.array(z.object({ name: z.string(), branches: z.array(z.string()) })),
});
export type RepoList = z.infer<typeof RepoList>;

/** `GET /api/v1/repos/{repo}/branches`: by name; times in milliseconds since 1970. */
export const BranchList = z.object({
  branches: z.array(
    z.object({
      name: z.string(),
      createdAt: z.int(),
      /** Whether it answers reads without a signature. Absent: the gateway is of a release that does not have that. */
      public: z.boolean().optional(),
    }),
  ),
});
export type BranchList = z.infer<typeof BranchList>;

/** `PUT /api/v1/repos/{repo}/branches/{branch}/public`: whether reads need no signature. The answer repeats it. */
export const BranchPublic = z.strictObject({ public: z.boolean() });
export type BranchPublic = z.infer<typeof BranchPublic>;
