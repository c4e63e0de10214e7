import { GatewayError } from "../../protocol/requests.ts";
import type { SessionCreated } from "../../protocol/sessions.ts";
import { Gateway, isOfKey } from "./gateway.ts";
import { forgetSession, keepSession } from "./kept-session.ts";
import { type Entered, importSecret, type Signer } from "./signer.ts";

/*
 * How a session begins and ends. A key that is entered signs one request, for a session; then this browser has the session in
 * place of the key. All tabs of the browser have the same one: what begins or ends it is told to the others.
 */

/** Who signs from now on. */
export interface SignedIn {
  readonly signer: Signer;
  /** False: this tab alone has it, in memory. */
  readonly isKept: boolean;
}

/** Takes a key that was entered. Throws if it is not good. */
export async function signIn({ id, secret }: Entered): Promise<SignedIn> {
  const key = { id, keyId: id, signing: await importSecret(secret) };
  const gateway = new Gateway(key);
  const made = await gateway
    .call<SessionCreated>("/console/sessions", { method: "POST" })
    .catch((error: unknown) => {
      if (error instanceof GatewayError && error.code === "NoEncryptionKey") return undefined;
      throw error;
    });
  if (!made) {
    // A gateway without an encryption key makes no sessions. What the first page shows proves the key.
    await gateway.call("/now");
    return { signer: key, isKept: false };
  }
  const signing = await importSecret(made.secret);
  // By our clock, whatever that of the gateway says.
  const endsAt = Date.now() + made.expiresAt - made.createdAt;
  const { id: session, key: keyId, description } = made;
  const signer = { id: session, keyId, description, signing, endsAt };
  const isKept = await keepSession(signer).then(
    () => true,
    () => false,
  );
  if (isKept) tell({ began: signer.id });
  return { signer, isKept };
}

/** Forgets who signs, in all tabs. `why`: what the person is told there. */
export async function forget(signer: Signer, why: string | undefined): Promise<void> {
  await forgetSession(signer);
  tell({ ended: signer.id, ...(why !== undefined && { why }) });
}

/** Ends a session at the gateway. Returns what the person is to know if that was not done. */
export async function endAtGateway(signer: Signer): Promise<string | undefined> {
  if (signer.endsAt === undefined) return undefined;
  try {
    await new Gateway(signer).call(`/console/sessions/${signer.id}`, { method: "DELETE" });
    return undefined;
  } catch (error) {
    // It has ended already.
    if (isOfKey(error)) return undefined;
    const until = new Date(signer.endsAt).toLocaleTimeString();
    return `This browser has forgotten the session. The gateway could not be told, which takes it until ${until}.`;
  }
}

type Told = { readonly began: string } | { readonly ended: string; readonly why?: string };

/** One in this tab: what it says comes to the others alone. */
const tabs = new BroadcastChannel("sluice-session");

function tell(told: Told): void {
  tabs.postMessage(told);
}

/** Hears what other tabs tell, until what it returns is called. */
export function hearTabs(hear: (told: Told) => void): () => void {
  const listener = ({ data }: MessageEvent<Told>) => hear(data);
  tabs.addEventListener("message", listener);
  return () => tabs.removeEventListener("message", listener);
}
