/** The names of READ_CASES, for a test that runs them elsewhere. */
export const READ_CASE_NAMES = [
  "cuts a slow reader off whose blobs are deleted under it, and never ends its body early",
  "serves a slow reader to the end whose hold is renewed, however long it takes",
] as const;
