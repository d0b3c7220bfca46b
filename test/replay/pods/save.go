package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Concurrently calls do for each case, parallel of them at the same time; none begins after ctx has
// ended. It returns when all have.
func Concurrently(ctx context.Context, cases []Case, parallel int, do func(Case)) {
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for _, c := range cases {
		slots <- struct{}{}
		wg.Go(func() {
			if ctx.Err() == nil {
				do(c)
			}
			<-slots
		})
	}
	wg.Wait()
}

// Save writes what was observed of a case into dir, to investigate a difference. What cannot be
// written is left out.
func Save(dir string, got Recording) {
	if os.MkdirAll(dir, 0o755) != nil {
		return
	}
	for name, lines := range map[string][]map[string]any{"history": got.History, "events": got.Events,
		"objects": got.Objects, "replies": got.Replies} {
		var text []byte
		for _, l := range lines {
			raw, _ := json.Marshal(l) // decoded from JSON before
			text = append(append(text, raw...), '\n')
		}
		_ = os.WriteFile(filepath.Join(dir, name+".jsonl"), text, 0o644)
	}
	_ = os.WriteFile(filepath.Join(dir, "printed.txt"), printed(got), 0o644)
}

// printed is what kubectl printed in a case.
func printed(got Recording) []byte {
	var text []byte
	for _, row := range got.Rows {
		text = fmt.Appendf(text, "%-6.1f %v\n", row.T, row.Cells)
	}
	for _, d := range got.Describe {
		for _, l := range d.Body {
			text = fmt.Appendln(text, l)
		}
	}
	for _, c := range got.Output {
		text = fmt.Appendf(text, "## step %d %s\n## exit %s\n%s\n", c.Step, c.Line, c.Exit, strings.Join(c.Body, "\n"))
	}
	return text
}
