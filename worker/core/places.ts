/** Parts of the world in which Cloudflare is asked to make an object, "wnam" and so on (https://developers.cloudflare.com/durable-objects/reference/data-location/#provide-a-location-hint). */
type LocationHint = keyof typeof AWS_REGIONS;

/** Where a branch is to live. */
export interface Place {
  /** As its maker named it. */
  readonly region: string;
  /** The part of the world that this stands for; null: of none that is known here, as if no region had been named. */
  readonly hint: LocationHint | null;
}

/**
 * The regions of AWS in each part of the world, by the cities that AWS says they are in
 * (https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html, November 2026; `eu` is how S3 once called
 * eu-west-1). Its Europe is the western one as a whole: of the eastern one there is a hint alone.
 */
const AWS_REGIONS = {
  wnam: ["us-west-1", "us-west-2", "us-gov-west-1", "ca-west-1"],
  enam: ["us-east-2", "us-gov-east-1", "ca-central-1", "mx-central-1"],
  sam: ["sa-east-1"],
  weur: [
    ...["eu", "eu-west-1", "eu-west-2", "eu-west-3", "eu-central-1", "eu-central-2", "eu-north-1"],
    ...["eu-south-1", "eu-south-2", "eusc-de-east-1"],
  ],
  eeur: [],
  apac: [
    ...["ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1"],
    ...["ap-south-2", "ap-southeast-1", "ap-southeast-3", "ap-southeast-5", "ap-southeast-7"],
    ...["cn-north-1", "cn-northwest-1"],
  ],
  oc: ["ap-southeast-2", "ap-southeast-4", "ap-southeast-6"],
  afr: ["af-south-1"],
  me: ["il-central-1", "me-central-1", "me-south-1"],
} as const satisfies Record<string, readonly string[]>;

const HINTS = Object.keys(AWS_REGIONS) as LocationHint[];

/** Nowhere in particular: R2's word for that, and the region that the gateway says of every bucket, which clients send by default. */
const ANYWHERE = ["auto", "us-east-1"];

const HINT_OF = new Map<string, LocationHint>(
  HINTS.flatMap((hint) => [hint, ...AWS_REGIONS[hint]].map((region) => [region, hint] as const)),
);

/** Regions elsewhere, and those of AWS that are newer than this table: words and numbers with hyphens between, such as `fr-par` or `nyc3`. */
const LOOKS_LIKE_ONE = /^(?=.*[-0-9])[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
const MAX_REGION_CHARACTERS = 63;

/** What is said of a name that looks like no region. */
export function regionFault(name: string): string {
  const shown = JSON.stringify(name.slice(0, MAX_REGION_CHARACTERS));
  const known = [...ANYWHERE, ...HINT_OF.keys()].join(", ");
  return `is ${shown}, but must be the name of a region: ${known}; or one that looks like these, which is kept and places nothing`;
}

/** The place that a region stands for; null: none in particular; undefined: the name looks like no region. */
export function placeOfRegion(name: string): Place | null | undefined {
  const region = name.toLowerCase();
  if (ANYWHERE.includes(region)) return null;
  const hint = HINT_OF.get(region) ?? null;
  const isRegion = hint !== null || (LOOKS_LIKE_ONE.test(region) && region.length <= MAX_REGION_CHARACTERS);
  return isRegion ? { region, hint } : undefined;
}

/** A place as it is written down: two columns, both null if there is none. */
export interface PlaceRow {
  readonly region: string | null;
  readonly hint: string | null;
}

/** A hint that a later release wrote down, which is not known here, counts as none. */
export function placeOfRow({ region, hint }: PlaceRow): Place | null {
  return region === null ? null : { region, hint: HINTS.find((known) => known === hint) ?? null };
}
