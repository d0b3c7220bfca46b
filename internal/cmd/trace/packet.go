package trace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// packetAnswer is a packet's way, with why its Service has nobody when that is what stops it.
type packetAnswer struct {
	packet.Result
	Why *explain.Answer `json:"why,omitempty"`
}

// newPacket is `gantry trace packet`.
func newPacket(io cli.IO) *cobra.Command {
	e := &cli.Inspector{Out: io.Out}
	var from, to, protocol, domain string
	c := &cobra.Command{
		Use:   "packet --from pod/NAME --to service/NAME:PORT",
		Short: "Say what would become of a packet, step by step, without sending it",
		Long: "packet walks from the name to the address, the Service port that has it, the rule, the endpoints it " +
			"leads to, and for each of them policies, route and the\n" +
			"socket at its end. The first step that fails is the verdict, with its reason and what to do. Nothing is " +
			"sent: what decides are the functions that the rules\n" +
			"in the kernel are made from.\n\n" +
			"--from: pod/NAME, pod/NAMESPACE/NAME, node/NAME, or the address of somebody outside.\n" +
			"--to: service/NAME:PORT, pod/NAME:PORT, node/NAME:NODEPORT, ADDRESS:PORT or a name, as the sender would " +
			"write it: db:5432, db.shop.svc.cluster.local:5432.\n\n" +
			"Verdicts: delivered, sometimes (it depends on the endpoint), refused (at once), dropped (the sender " +
			"waits in vain), unresolved, unsent, unknown.",
		Example: "  gantry trace packet --from pod/a --to service/b:80\n  gantry trace packet --from pod/a --to " +
			"db.shop:5432 -o json\n" +
			"  gantry trace packet --from 198.51.100.7 --to node/node-1:30080\n  gantry trace packet --from pod/a " +
			"--to service/dns:53 --protocol udp",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "text", "json", "svg"}, e.Output) {
				return cli.UsageError(fmt.Errorf("output %q: must be text, json or svg", e.Output))
			}
			client, err := e.NewClient()
			if err != nil {
				return err
			}
			ask, err := packet.ReadTo(to, e.Namespace, protocol)
			if err != nil {
				return cli.UsageError(err)
			}
			if ask.From, err = packet.ReadFrom(from, e.Namespace); err != nil {
				return cli.UsageError(err)
			}
			return packetCommand{e, client, domain}.trace(c.Context(), ask)
		},
	}
	e.Flags(c, "text (default), json, svg")
	c.Flags().StringVar(&from, "from", "", "who sends: pod/NAME, pod/NAMESPACE/NAME, node/NAME or an address")
	c.Flags().StringVar(&to, "to", "",
		"whom it is for, and the port: service/NAME:80, pod/NAME:8080, node/NAME:30080, 10.0.0.1:80, NAME:80")
	c.Flags().StringVar(&protocol, "protocol", "tcp", "tcp, udp or sctp")
	c.Flags().StringVar(&domain, "cluster-domain", "", "domain of the cluster's names (default: cluster.local)")
	return c
}

// packetCommand answers one call of `gantry trace packet`.
type packetCommand struct {
	inspector *cli.Inspector
	client    kubernetes.Interface
	domain    string // of the cluster's names; empty: cluster.local
}

func (c packetCommand) trace(ctx context.Context, ask packet.Request) error {
	e, client := c.inspector, c.client
	w, err := gather.ReadPacketState(ctx, client)
	if err != nil {
		return cli.WithFix(err, "be somebody who may list pods, services, endpointslices and nodes")
	}
	w.Domain = c.domain
	reported := packetAnswer{Result: packet.Trace(w, ask)}
	if gather.ReadSockets(ctx, client, &w, reported.Pods) {
		reported.Result = packet.Trace(w, ask)
	}
	if namespace, name, ok := strings.Cut(reported.Service, "/"); ok && reported.Reason == packet.NoEndpoints {
		other := *e
		other.Namespace = namespace
		if why, _, err := gather.Answer(ctx, &other, "service/"+name, 0); err == nil {
			reported.Why = &why
		}
	}
	switch e.Output {
	case "json":
		return cli.WriteJSON(e.Out, reported)
	case "svg":
		return reported.WriteSVG(e.Out)
	}
	if err := reported.WriteText(e.Out); err != nil {
		return err
	}
	if reported.Why == nil {
		return nil
	}
	fmt.Fprintln(e.Out)
	return reported.Why.WriteText(e.Out, time.Now())
}
