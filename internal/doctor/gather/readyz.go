package gather

import (
	"context"
	"net/http"
	"strings"

	"github.com/gantry-project/gantry/internal/doctor"
)

// failingChecks asks an API server which checks of its /readyz fail, and each of them why. None is
// also the answer of a server that does not say.
func failingChecks(ctx context.Context, client *http.Client, server string) []doctor.FailingCheck {
	all, err := httpGet(ctx, client, server+"/readyz?verbose")
	if err != nil || all.code != http.StatusInternalServerError {
		return nil
	}
	var out []doctor.FailingCheck
	for line := range strings.Lines(string(all.body)) {
		name, ok := strings.CutPrefix(line, "[-]")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		c := doctor.FailingCheck{Name: name, Reason: "it gives no reason"}
		if one, err := httpGet(ctx, client, server+"/readyz/"+name); err == nil && one.code != http.StatusOK {
			c.Reason = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(one.body)),
				"internal server error:"))
		}
		out = append(out, c)
	}
	return out
}
