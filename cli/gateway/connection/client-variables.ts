import type { Connection } from "./connection.ts";

/**
 * The variables by which tools find a gateway and its key: all of them, so that none is left over from another key. A tool
 * that reads the names of AWS would go on with the one that was there before.
 */
export function clientVariables({
  endpoint,
  accessKeyId,
  secretAccessKey,
}: Pick<Connection, "endpoint" | "accessKeyId" | "secretAccessKey">): Record<string, string> {
  return {
    SLUICE_ENDPOINT: endpoint,
    SLUICE_ACCESS_KEY_ID: accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    // Any region will do, but the tools want one.
    AWS_DEFAULT_REGION: "us-east-1",
    AWS_REGION: "us-east-1",
    RCLONE_CONFIG_SLUICE_TYPE: "s3",
    RCLONE_CONFIG_SLUICE_PROVIDER: "Other",
    RCLONE_CONFIG_SLUICE_ENDPOINT: endpoint,
    RCLONE_CONFIG_SLUICE_ACCESS_KEY_ID: accessKeyId,
    RCLONE_CONFIG_SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
  };
}

/** What a POSIX shell takes to set them, a line each. */
export function exportLines(variables: Readonly<Record<string, string>>): string[] {
  // A token of another key, which the tools would send along with this one.
  return [
    ...Object.entries(variables).map(([name, value]) => `export ${name}=${quoted(value)}`),
    "unset AWS_SESSION_TOKEN",
  ];
}

function quoted(value: string): string {
  return /^[A-Za-z0-9_./:@%+=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
