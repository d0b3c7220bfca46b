package trace

import (
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
)

func TestTraceOfKubectlWrites(t *testing.T) {
	for _, line := range []string{"apply", "create", "create configmap", "create secret generic",
		"create service clusterip"} {
		c, rest, err := cli.Root(cli.IO{}, New(cli.IO{})).Find(append([]string{"trace"}, strings.Fields(line)...))
		if err != nil || len(rest) > 0 || c.RunE == nil || c.Run != nil {
			t.Errorf("trace %s runs as kubectl does and tells nothing (%q, %v)", line, rest, err)
		}
	}
}
