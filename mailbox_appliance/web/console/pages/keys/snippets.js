// @ts-check
/** Configurations and commands that use a key, ready to paste. Pure functions. */

/** @typedef {[title: string, hint: string, label: string, text: string]} Use */

/**
 * @param {string} address of the appliance, without a slash at the end
 * @param {string} token
 * @param {string[]} capabilities of the key
 * @returns {Use[]}
 */
export function usesOf(address, token, capabilities) {
  const reads = capabilities.includes("mail.read");
  const program = `mailbox-appliance --instance ${address}`;
  /** @type {Use[]} */
  const uses = [
    [
      "AI agent over stdio (MCP)",
      "Add this to the MCP client’s configuration. The command must be installed on the same computer.",
      "Configuration for stdio",
      mcp({
        command: "mailbox-appliance",
        args: ["--instance", address, "mcp"],
        env: { MAILBOX_APPLIANCE_TOKEN: token },
      }),
    ],
    [
      "AI agent over HTTP (MCP)",
      "Add this to the MCP client’s configuration. The client must be able to connect to the address and trust its certificate.",
      "Configuration for HTTP",
      mcp({ type: "http", url: `${address}/mcp`, headers: { Authorization: `Bearer ${token}` } }),
    ],
    [
      "Command line",
      "For bash and zsh. Lasts until you close the terminal.",
      "Commands",
      `export MAILBOX_APPLIANCE_TOKEN=${token}\n${program} ${reads ? `accounts list\n${program} status` : "whoami"}`,
    ],
    [
      "curl and your own programs",
      `The API is described at ${address}/api/v1/openapi.json.`,
      "curl command",
      `curl -H "Authorization: Bearer ${token}" ${address}/api/v1/${reads ? "accounts" : "me"}`,
    ],
  ];
  const hasMail = capabilities.some((one) => one.startsWith("mail."));
  return uses.slice(hasMail ? 0 : 2);
}

/** @param {object} mailbox the server */
function mcp(mailbox) {
  return JSON.stringify({ mcpServers: { mailbox } }, null, 2);
}
