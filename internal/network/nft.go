package network

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// nft runs a script as one transaction: all or nothing.
func nft(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the nft program is missing: install nftables (Debian: apt-get install nftables)")
	}
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

// hasTable reports whether the instance's table is loaded.
func hasTable(ctx context.Context, id string) bool {
	return exec.CommandContext(ctx, "nft", "list", "table", "inet", Table(id)).Run() == nil
}

// dropsForwarded returns a warning if a chain of another program (such as Docker or a firewall)
// drops forwarded packets by default; "" if there is none. No rule of ours can override such a
// chain: a packet must pass all tables.
func dropsForwarded(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "nft", "list", "chains").Output()
	if err != nil {
		return ""
	}
	table, chain := "", ""
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 3 && fields[0] == "table":
			table = fields[1] + " " + fields[2]
		case len(fields) >= 2 && fields[0] == "chain":
			chain = fields[1]
		case strings.Contains(line, "hook forward") && strings.Contains(line, "policy drop"):
			return fmt.Sprintf("the host's firewall (nft table %s, chain %s) drops forwarded packets by default: "+
				"Pods may not reach the world, nor the world their host ports", table, chain)
		}
	}
	return ""
}
