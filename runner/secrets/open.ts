import { resolve } from "node:path";
import { folderSecrets } from "./folder.ts";
import { kubernetesSecrets } from "./kubernetes.ts";
import { remembered } from "./remembered.ts";
import { SecretMissing, type SecretSource } from "./source.ts";

const KUBERNETES = /^kubernetes(?::(?<namespace>.+))?$/;

/**
 * The source that `--secrets` names: a folder, or `kubernetes[:namespace]`. Without one, every secret is missing.
 * `kill` ends what is under way.
 */
export function openSecrets(setting: string | undefined, kill: AbortSignal): SecretSource {
  if (setting === undefined) return NONE;
  return remembered(sourceOf(setting), { kill, now: () => performance.now() });
}

function sourceOf(setting: string): SecretSource {
  const kubernetes = KUBERNETES.exec(setting);
  if (!kubernetes) return folderSecrets(resolve(setting));
  const namespace = kubernetes.groups?.namespace;
  return kubernetesSecrets({ ...(namespace && { namespace }) });
}

const NONE: SecretSource = {
  read: async (name) => {
    throw new SecretMissing(
      `secret "${name}" can't be looked up: this runner was started without --secrets (SLUICE_SECRETS)`,
    );
  },
};
