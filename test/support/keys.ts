/** The root key of a gateway, and where that gateway is. */
export interface Door {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** The root key that tests give to the gateways they start. */
export const ROOT_KEY = {
  accessKeyId: "e2e-root-key",
  secretAccessKey: "e2e-root-secret-0123456789",
} as const;

/** The variables by which a gateway, a runner and the CLI learn a door. */
export function doorVariables({ endpoint, accessKeyId, secretAccessKey }: Door): Record<string, string> {
  return {
    SLUICE_ENDPOINT: endpoint,
    SLUICE_ACCESS_KEY_ID: accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
  };
}
