package config_test

import (
	"strings"
	"testing"

	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/scheduler/config"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func pluginNames(seats []config.EnabledPlugin) string {
	var out []string
	for _, s := range seats {
		out = append(out, s.Name)
	}
	return strings.Join(out, " ")
}

func extensionPoint(t *testing.T, name string) config.ExtensionPoint {
	t.Helper()
	for _, p := range config.ExtensionPoints {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no point %s", name)
	return config.ExtensionPoint{}
}

// scores says which plugins score, as far as these tests care.
func scores(plugin string) bool {
	return strings.Contains(
		"TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread NodeResourcesBalancedAllocation "+
			"ImageLocality X", plugin)
}

func load(t *testing.T, text string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := config.Load([]byte(head+text), "X")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// row: SCH-17
func TestDefaults(t *testing.T) {
	for _, cfg := range []*schedulerconfig.KubeSchedulerConfiguration{config.Default(), load(t, "")} {
		p := cfg.Profiles[0]
		if *p.SchedulerName != "default-scheduler" || *cfg.Parallelism != 16 || *cfg.PodInitialBackoffSeconds != 1 ||
			*cfg.PodMaxBackoffSeconds != 10 || cfg.PercentageOfNodesToScore != nil {
			t.Errorf("got %+v, want SchedulerName default-scheduler, Parallelism 16, PodInitialBackoffSeconds 1, "+
				"PodMaxBackoffSeconds 10 and no PercentageOfNodesToScore", cfg)
		}
		if e := cfg.LeaderElection; !*e.LeaderElect || e.ResourceName != "kube-scheduler" ||
			e.ResourceNamespace != "kube-system" || e.LeaseDuration.Seconds() != 15 {
			t.Errorf("leader election %+v", e)
		}
		var fit *schedulerconfig.NodeResourcesFitArgs
		for _, c := range p.PluginConfig {
			if a, ok := c.Args.Object.(*schedulerconfig.NodeResourcesFitArgs); ok {
				fit = a
			}
		}
		if fit == nil || fit.ScoringStrategy.Type != schedulerconfig.LeastAllocated ||
			len(fit.ScoringStrategy.Resources) != 2 {
			t.Errorf("NodeResourcesFitArgs %+v", fit)
		}
		seats := config.EnabledPlugins(p.Plugins, extensionPoint(t, "Score"), scores)
		if got := pluginNames(seats); got != "TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread "+
			"NodeResourcesBalancedAllocation ImageLocality" {
			t.Errorf("score plugins: %s", got)
		}
		if seats[0].Weight != 3 || seats[1].Weight != 2 || seats[2].Weight != 1 {
			t.Errorf("weights: got %v, want [0].Weight 3 and [1].Weight 2 and [2].Weight 1", seats)
		}
	}
}

// row: SCH-18, SCH-19
func TestProfilesChooseTheirPlugins(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"one disabled at one point": {"profiles: [{plugins: {score: {disabled: [{name: ImageLocality}]}}}]",
			"TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread NodeResourcesBalancedAllocation"},
		"one disabled everywhere": {"profiles: [{plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}}]",
			"TaintToleration NodeAffinity NodeResourcesFit NodeResourcesBalancedAllocation ImageLocality"},
		"all disabled, some again": {
			`profiles: [{plugins: {score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality, weight: 5},` +
				` {name: NodeAffinity}]}}}]`, "ImageLocality NodeAffinity"},
		"reordered and extra": {
			"profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 5}]}, multiPoint: {enabled: " +
				"[{name: X}]}}}]",
			"ImageLocality TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread " +
				"NodeResourcesBalancedAllocation X"},
		"extra at the point alone": {"profiles: [{plugins: {score: {enabled: [{name: X}]}}}]",
			"TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread NodeResourcesBalancedAllocation " +
				"ImageLocality X"},
	} {
		cfg := load(t, c.text)
		if got := pluginNames(config.EnabledPlugins(cfg.Profiles[0].Plugins, extensionPoint(t, "Score"),
			scores)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	// what one profile disables at one point it has at others, and other profiles have it there
	cfg := load(t, "profiles: [{schedulerName: a, plugins: {filter: {disabled: [{name: NodeAffinity}]}}}, "+
		"{schedulerName: b}]")
	filters := func(plugin string) bool {
		return strings.Contains("NodeUnschedulable TaintToleration NodeAffinity NodeResourcesFit", plugin)
	}
	for i, want := range []string{"NodeUnschedulable TaintToleration NodeResourcesFit",
		"NodeUnschedulable TaintToleration NodeAffinity NodeResourcesFit"} {
		p := cfg.Profiles[i].Plugins
		if got := pluginNames(config.EnabledPlugins(p, extensionPoint(t, "Filter"), filters)); got != want {
			t.Errorf("filters of profile %d: %s, want %s", i, got, want)
		}
		if got := pluginNames(config.EnabledPlugins(p, extensionPoint(t, "Score"),
			scores)); !strings.Contains(got, "NodeAffinity") {
			t.Errorf("scores of profile %d: %s, want NodeAffinity among them", i, got)
		}
	}
	cfg = load(t, "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}}]")
	if s := config.EnabledPlugins(cfg.Profiles[0].Plugins, extensionPoint(t, "Score"),
		scores)[1]; s.Name != "NodeAffinity" || s.Weight != 7 {
		t.Errorf("a default plugin keeps its place and takes the new weight: %+v", s)
	}
}

func args(plugin, text string) string {
	return "profiles: [{pluginConfig: [{name: " + plugin + ", args: " + text + "}]}]"
}

// Where kube-scheduler v1.37 refuses the same, it does so in the same words.
func TestErrorsNameTheField(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown field": {"profils: []", `strict decoding error: unknown field "profils"`},
		"unknown argument": {"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoreStrategy: {}}}]}]",
			`decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin ` +
				`NodeResourcesFit: ` +
				`strict decoding error: unknown field "scoreStrategy"`},
		"unknown plugin": {"profiles: [{plugins: {filter: {enabled: [{name: NodeResourceFit}]}}}]",
			`profiles[0].plugins.filter.enabled[0].name: Not found: "NodeResourceFit"`},
		"parallelism": {"parallelism: 0",
			"parallelism: Invalid value: 0: should be an integer value greater than zero"},
		"percentage": {"percentageOfNodesToScore: 101",
			"percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"},
		"back-offs": {"podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4",
			"podMaxBackoffSeconds: Invalid value: 4: must be greater than or equal to PodInitialBackoffSeconds"},
		"two of one name": {"profiles: [{schedulerName: a}, {schedulerName: a}]",
			`profiles[1].schedulerName: Duplicate value: "a"`},
		"no name": {"profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value"},
		"strategy": {"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Best}}}]}]",
			`profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Best": supported values: ` +
				`"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`},
		"weight": {"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: " +
			"LeastAllocated, resources: [{name: cpu, weight: 101}]}}}]}]",
			"profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: Invalid value: 101: resource " +
				"weight of cpu not in valid range (0, 100]"},
		"shape": {"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: " +
			"RequestedToCapacityRatio}}}]}]",
			"profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: Required value: must be " +
				"specified when type is RequestedToCapacityRatio"},
		"extender's URL": {"extenders: [{urlPrefix: nowhere}]",
			`extenders[0].urlPrefix: Invalid value: "nowhere": must be a URL like http://host:port/path`},
		"extender's weight": {"extenders: [{urlPrefix: 'http://x', prioritizeVerb: score}]",
			"extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"},
		"two binders": {
			"extenders: [{urlPrefix: 'http://x', bindVerb: bind}, {urlPrefix: 'http://y', bindVerb: bind}]",
			`extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind`},
		"managed twice": {"extenders: [{urlPrefix: 'http://x', managedResources: [{name: a/b}, {name: a/b}]}]",
			`extenders[0].managedResources[1].name: Invalid value: "a/b": duplicate extender managed resource name`},
		"election": {"leaderElection: {leaseDuration: 5s}",
			"leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`"},
		"lock": {"leaderElection: {resourceLock: configmaps}",
			`leaderElection.resourceLock: Invalid value: "configmaps": resourceLock value must be "leases"`},
		"gang's wait": {"profiles: [{pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: -1}}]}]",
			"profiles[0].pluginConfig[0].args.permitWaitingTimeSeconds: Invalid value: -1: must be greater than or " +
				"equal to 0"},
		"gang's typo": {"profiles: [{pluginConfig: [{name: Coscheduling, args: {permitWaitSeconds: 1}}]}]",
			`unknown field "permitWaitSeconds"`},
		"twice enabled": {"profiles: [{plugins: {score: {enabled: [{name: X}, {name: X}]}}}]",
			`profiles[0].plugins.score.enabled[1].name: Duplicate value: "X"`},
		"shape's order": {
			args("NodeResourcesFit",
				"{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: "+
					"50, score: 11}, {utilization: 20, score: 1}]}}}"),
			"[profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: " +
				"Invalid value: 20: values must be sorted in increasing order, " +
				"profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid " +
				"value: 11: not in valid range [0, 10]]"},
		"weight of balance": {args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}"),
			"profiles[0].pluginConfig[0].args.resources[0].weight: Invalid value: 2: must be 1"},
		"resource twice": {args("NodeResourcesBalancedAllocation",
			"{resources: [{name: cpu, weight: 1}, {name: cpu, weight: 1}]}"),
			`profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: "cpu"`},
		"ignored group": {args("NodeResourcesFit", "{ignoredResourceGroups: [example.com/foo]}"),
			`profiles[0].pluginConfig[0].args.ignoredResourceGroups[0]: Invalid value: "example.com/foo": resource ` +
				`group name can't contain '/'`},
		"affinity's weight": {args("InterPodAffinity", "{hardPodAffinityWeight: 101}"),
			"profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"},
		"added operator": {
			args("NodeAffinity",
				"{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
					"[{matchExpressions: [{key: foo, operator: Is, values: [a]}]}]}}}"),
			`: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.` +
				`nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Is": ` +
				`supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`},
		"added number": {
			args("NodeAffinity",
				"{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
					"[{matchExpressions: [{key: gen, operator: Gt, values: [x]}]}]}}}"),
			`.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the ` +
				`value must be an integer`},
		"spread of another way": {args("PodTopologySpread", "{defaultingType: Own}"),
			`profiles[0].pluginConfig[0].args.defaultingType: Unsupported value: "Own": supported values: "System",` +
				` "List"`},
		"spread of two ways": {
			args("PodTopologySpread",
				"{defaultingType: System, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: "+
					"ScheduleAnyway}]}"),
			`profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints are ` +
				`not empty`},
		"spread twice": {
			args("PodTopologySpread",
				"{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: "+
					"ScheduleAnyway}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}"),
			`profiles[0].pluginConfig[0].args.defaultConstraints[1]: Duplicate value: "{a, ScheduleAnyway}"`},
		"spread of nothing": {
			args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 0}]}"),
			"[profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range " +
				"(0, inf), profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: Required value: can " +
				"not be empty, profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Required " +
				"value: can not be empty]"},
		"spread's key": {
			args("PodTopologySpread",
				"{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a b, whenUnsatisfiable: "+
					"ScheduleAnyway}]}"),
			`profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: Invalid value: "a b": name part ` +
				`must ` +
				`consist of`},
		"volumes' wait": {args("VolumeBinding", "{bindTimeoutSeconds: -1}"),
			"profiles[0].pluginConfig[0].args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, " +
				"should not be a negative value"},
		"volumes' shape": {
			args("VolumeBinding",
				"{shape: [{utilization: 50, score: 11}, {utilization: 40, score: -1}, {utilization: 101, score: 1}]}"),
			"profiles[0].pluginConfig[0].args.shape[1].utilization: Invalid value: 40: values must be sorted in " +
				"increasing order, profiles[0].pluginConfig[0].args.shape[0].score: Invalid value: 11: not in valid " +
				"range [0, 10], profiles[0].pluginConfig[0].args.shape[1].score: Invalid value: -1: not in valid " +
				"range [0, 10], profiles[0].pluginConfig[0].args.shape[2].utilization: Invalid value: 101: not in " +
				"valid range [0, 100]"},
		"no candidates": {
			args("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"),
			"profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the " +
				"same time as minCandidateNodesAbsolute"},
		"less than none": {
			args("DefaultPreemption", "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}"),
			"[profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 101: not in valid range " +
				"[0, 100], profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: -1: not in " +
				"valid range [0, inf)]"},
		"devices' wait": {args("DynamicResources", "{filterTimeout: -1s, bindingTimeout: 0s}"),
			`[profiles[0].pluginConfig[0].args.filterTimeout: Invalid value: "-1s": must be zero or positive,` +
				` profiles[0].pluginConfig[0].args.bindingTimeout: Invalid value: "0s": must be at least 1 second]`},
		"arguments of another": {
			args("NodeAffinity", "{kind: NodeResourcesFitArgs, apiVersion: kubescheduler.config.k8s.io/v1}"),
			"decoding .profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type " +
				"NodeAffinityArgs.kubescheduler.config.k8s.io, got NodeResourcesFitArgs.kubescheduler.config.k8s.io"},
		"managed by itself": {"extenders: [{urlPrefix: 'http://x', managedResources: [{name: cpu}]}]",
			`extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name`},
		"arguments for nothing": {"profiles: [{pluginConfig: [{name: NodeName, args: {}}]}]",
			"profiles[0].pluginConfig[0].args: Forbidden: plugin NodeName takes no arguments"},
	} {
		_, err := config.Load([]byte(head+c.text), "X")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
	if _, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n")); err == nil ||
		!strings.Contains(err.Error(), "v1beta3") {
		t.Errorf("another version: %v", err)
	}
}

func TestOutOfTreeArgumentsAreUnchanged(t *testing.T) {
	cfg := load(t, "profiles: [{pluginConfig: [{name: X, args: {permitWaitingTimeSeconds: 60}}]}]")
	for _, c := range cfg.Profiles[0].PluginConfig {
		if c.Name == "X" && (c.Args.Object != nil || string(c.Args.Raw) != `{"permitWaitingTimeSeconds":60}`) {
			t.Errorf("args %s %v", c.Args.Raw, c.Args.Object)
		}
	}
}
