import { z } from "zod";

/** `GET /api/v1/repos`: by name. */
export const RepoList = z.object({
  repos: z.array(z.object({ name: z.string(), branches: z.array(z.string()) })),
});
export type RepoList = z.infer<typeof RepoList>;

/** `GET /api/v1/repos/{repo}/branches`: by name; times in milliseconds since 1970. */
export const BranchList = z.object({
  branches: z.array(z.object({ name: z.string(), createdAt: z.int() })),
});
export type BranchList = z.infer<typeof BranchList>;
