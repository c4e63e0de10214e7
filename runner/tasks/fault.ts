/** An egress can't succeed as it is set up, and this is why, for the people who read its job. No credentials are in it. */
export class EgressFault extends Error {
  override readonly name = "EgressFault";
}
