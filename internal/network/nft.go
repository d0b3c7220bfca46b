package network

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// nft runs a script as one transaction: all of it or nothing.
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

// hasTable tells whether the instance's table is loaded.
func hasTable(ctx context.Context, id string) bool {
	return exec.CommandContext(ctx, "nft", "list", "table", "inet", Table(id)).Run() == nil
}
