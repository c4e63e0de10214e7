import { type Egress, foreignHost } from "../../protocol/spec.ts";
import { type Destination, isWithin, placeText } from "./destination.ts";
import { EgressFault } from "./store-failure.ts";

/** What the operator of a runner allows its egress. */
export interface EgressTerms {
  /** The credentials of the runner's environment serve what lies in these, and nothing else. */
  readonly environment: readonly Destination[];
  /** Whether a store may be at an address of this machine or of its link. */
  readonly local: boolean;
}

/** If the operator said nothing: an egress needs a secret, and a store that is elsewhere. */
export const STRICT_TERMS: EgressTerms = { environment: [], local: false };

interface EnvironmentUse {
  readonly egress: Egress;
  readonly destination: Destination;
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited: boolean;
}

/**
 * Throws EgressFault unless the environment's credentials may be used for this. The gateway refuses most of it when the
 * pipeline is made.
 */
export function checkEnvironment(
  { environment }: EgressTerms,
  { egress, destination, limited }: EnvironmentUse,
): void {
  if (limited) {
    throw new EgressFault(
      "the pipeline belongs to a key that is limited to repos, which the environment of a runner does not serve: name credentials with egress.secret",
    );
  }
  const elsewhere =
    egress.endpoint !== undefined ? "egress.endpoint" : foreignHost(egress.URL) && "egress.URL";
  if (elsewhere) {
    throw new EgressFault(
      `${elsewhere} names an address that is not the vendor's: name the credentials for it with egress.secret`,
    );
  }
  if (environment.some((allowed) => isWithin(destination, allowed))) return;
  throw new EgressFault(
    `the environment of this runner does not serve ${placeText(destination)}: name credentials with egress.secret, ` +
      "or have the runner's operator allow it with --egress-environment",
  );
}
