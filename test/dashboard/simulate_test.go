package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cmd/simulate"
	page "github.com/gantry-project/gantry/internal/dashboard"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

// simulateHere is `gantry simulate` in this process; TestUp has it in one of its own.
func simulateHere(ctx context.Context, client kubernetes.Interface, c page.SimulateCall) (*forecast.Forecast, error) {
	copied, err := source.FromCluster(ctx, client)
	if err != nil {
		return nil, err
	}
	var in, out bytes.Buffer
	if err := source.WriteSnapshot(&in, copied, time.Now()); err != nil {
		return nil, err
	}
	run := simulate.New(cli.IO{Out: &out, Err: &out})
	run.SilenceErrors, run.SilenceUsage = true, true
	run.SetIn(&in)
	run.SetArgs(append(append(append([]string{c.Verb, "--from=-", "--output=json"}, c.Flags...), "--"), c.Names...))
	if err := run.ExecuteContext(ctx); err != nil {
		return nil, cli.UsageError(err)
	}
	var f forecast.Forecast
	return &f, json.Unmarshal(out.Bytes(), &f)
}
