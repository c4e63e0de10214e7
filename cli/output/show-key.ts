/** The repos that a key is for, on one line. */
export function showRepos(repos: readonly string[] | null): string {
  return repos === null ? "all repos" : repos.join(" ");
}
