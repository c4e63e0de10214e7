/** Values that S3 has and that are always the same here (spec §4.3). */
export const OWNER_ID = "0".repeat(32);
export const OWNER = { ID: OWNER_ID, DisplayName: "sluice" };
export const STORAGE_CLASS = "STANDARD";
/** An empty location is us-east-1, which every client knows. Signatures may name any region. */
export const LOCATION = "";
