package controllers_test

import (
	"fmt"
	"slices"
	"strings"
)

// served is a ready Pod behind a Service.
const served = `kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {nodeName: NS-n, containers: [{name: c, image: web}]}
status: {phase: Running, podIP: 10.1.0.NUMBER, podIPs: [{ip: 10.1.0.NUMBER}], conditions: [{type: Ready, status: "True"}]}
---
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
`

// addressesOf the EndpointSlices or Endpoints of the Service, with the number of objects.
func addressesOf(kind, want string) func(*instance) error {
	return func(w *instance) error {
		var all []string
		objects := w.list(kind, "")
		for _, o := range objects {
			if kind == "Endpoints" {
				all = append(all, field(&o, "subsets[0].addresses[0].ip"))
			} else {
				all = append(all, field(&o, "endpoints[0].addresses[0]")+" "+field(&o, "endpoints[0].conditions.ready"))
			}
		}
		slices.Sort(all)
		if got := strings.Join(all, ", "); got != strings.ReplaceAll(want, "NUMBER", fmt.Sprint(w.n)) {
			return fmt.Errorf("%s is %q, want %q", kind, got, want)
		}
		return nil
	}
}

func unready(w *instance) {
	w.status("Pod/web", map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}})
}

var rowsOfServices = []row{
	{name: "endpointslice", event: "FailedToUpdateEndpointSlices", steps: []step{
		{makes(node + "---\n" + served), addressesOf("EndpointSlice", "10.1.0.NUMBER true")},
		{unready, addressesOf("EndpointSlice", "10.1.0.NUMBER false")}}},
	// row: CTL-14
	{name: "endpoints", event: "FailedToCreateEndpoint", steps: []step{
		{makes(node + "---\n" + served), addressesOf("Endpoints", "10.1.0.NUMBER")},
		{unready, allOf(addressesOf("Endpoints", ""), func(w *instance) error {
			return w.fieldIs("Endpoints/web", "subsets[0].notReadyAddresses[0].ip", fmt.Sprint("10.1.0.", w.n))
		})},
		{deletes("Service/web"), isGone("Endpoints/web")},
		// of a Service that went while nobody watched
		{makes("kind: Endpoints\nmetadata: {name: left, labels: " +
			"{endpoints.kubernetes.io/managed-by: endpoint-controller}}\n"), isGone("Endpoints/left")}}},
	{name: "slicemirror", steps: []step{
		{makes("kind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n---\nkind: Endpoints\n" +
			"metadata: {name: web}\nsubsets: [{addresses: [{ip: 10.2.0.NUMBER}], ports: [{port: 80}]}]\n"),
			addressesOf("EndpointSlice", "10.2.0.NUMBER true")},
		{patches("Endpoints/web", `{"subsets":[{"addresses":[{"ip":"10.3.0.1"}],"ports":[{"port":80}]}]}`),
			addressesOf("EndpointSlice", "10.3.0.1 true")},
		{deletes("Endpoints/web"), addressesOf("EndpointSlice", "")}}},
	{name: "servicelb", steps: []step{
		{makes(`kind: Node
metadata: {name: NS-n}
status:
  addresses: [{type: InternalIP, address: 192.0.2.NUMBER}]
  conditions: [{type: Ready, status: "True"}]
---
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80NUMBER, nodePort: 300NUMBER}]}
`), hasAddress},
		{patches("Service/web", `{"spec":{"type":"ClusterIP"}}`), fieldIs("Service/web", "status.loadBalancer",
			"map[]")}}},
}

// hasAddress: the instance's node is among the addresses of the load balancer.
func hasAddress(w *instance) error {
	if got := field(w.get("Service/web"), "status.loadBalancer.ingress"); !strings.Contains(got,
		fmt.Sprintf("192.0.2.%d ", w.n)) {
		return fmt.Errorf("the load balancer has %s", got)
	}
	return nil
}

var rowsOfRest = []row{
	{name: "resourcequota", steps: []step{
		{makes("kind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: '5', count/configmaps: '10'}}\n"),
			allOf(fieldIs("ResourceQuota/q", "status.hard.pods", "5"),
				fieldIs("ResourceQuota/q", "status.used.pods", "0"))},
		{func(w *instance) {
			w.make(pod("a", ""))
			w.make(pod("b", ""))
			w.delete("Pod/a")
		}, fieldIs("ResourceQuota/q", "status.used.pods", "1")},
		{patches("ResourceQuota/q", `{"spec":{"hard":{"pods":"7"}}}`), allOf(fieldIs("ResourceQuota/q",
			"status.hard.pods", "7"),
			fieldIs("ResourceQuota/q", "status.used.pods", "1"))}}},
}
