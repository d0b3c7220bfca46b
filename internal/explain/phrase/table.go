package phrase

const (
	scheduler  = "scheduler"
	kubelet    = "kubelet"
	apiserver  = "API server"
	controller = "controllers"
)

func scheduling() []phraseRule {
	return []phraseRule{
		{`\d+/\d+ nodes are available`, scheduler,
			"Filter: every node was refused by a plugin; the text counts nodes per refusal. The Pod is tried again " +
				"when something changes that could lift one",
			"`gantry why pod/NAME` names each node's refusal with its numbers; change what the largest group names"},
		{`insufficient [\w./-]+`, scheduler,
			"NodeResourcesFit: the Pod's request is more than the node's allocatable less the requests of its Pods; " +
				"use does not count",
			"lower the request, add a node, or delete or move Pods that ask for more than they use"},
		{`too many pods`, scheduler, "NodeResourcesFit: the node has as many Pods as its maxPods",
			"add a node, or raise maxPods in the KubeletConfiguration"},
		{`had untolerated taint(?:\(s\)|s)?(?: \{[^}]*\})?`, scheduler,
			"TaintToleration: the node has a NoSchedule or NoExecute taint that the Pod does not tolerate",
			"add the toleration to the Pod, or take the taint off with `kubectl taint nodes NODE KEY-`"},
		{`didn't match pod's node affinity/selector`, scheduler,
			"NodeAffinity: nodeSelector or required node affinity match none of the node's labels",
			"label a node so, or change nodeSelector or affinity"},
		{`didn't match pod (?:anti-)?affinity rules|didn't satisfy existing pods anti-affinity rules`, scheduler,
			"InterPodAffinity: required (anti-)affinity to Pods in the node's topology domain",
			"make it preferred, or add a node in another domain"},
		{`didn't match pod topology spread constraints`, scheduler,
			"PodTopologySpread: one more Pod here exceeds maxSkew, or the node lacks the topology label",
			"add nodes in the domains with fewer Pods, or whenUnsatisfiable: ScheduleAnyway"},
		{`didn't have free ports`, scheduler, "NodePorts: another Pod of the node has the hostPort",
			"drop hostPort, or choose another"},
		{`were unschedulable`, scheduler, "NodeUnschedulable: the node is cordoned", "`kubectl uncordon NODE`"},
		{`unbound immediate persistentvolumeclaims|persistentvolumeclaim "[^"]*" not found|didn't find available ` +
			`persistent volumes to bind|volume node affinity conflict`, scheduler,
			"VolumeBinding: a claim is not bound, is missing, or its volume is in another place",
			"`gantry why pvc/NAME`"},
		{`preemption: [^.]*no preemption victims found|no preemption victims found`, scheduler,
			"DefaultPreemption: no set of Pods of lower priority whose end would make room",
			"raise the Pod's priorityClassName, or make room"},
		{`preempted by [\w/ -]+`, scheduler, "DefaultPreemption: a Pod of higher priority needed the room",
			"give the Pod a higher priority, or add a node"},
		{`scheduling is blocked due to non-empty scheduling gates`, scheduler,
			"SchedulingGates: whoever set spec.schedulingGates has not taken them off",
			"remove the gates when what they wait for is there"},
	}
}

func images() []phraseRule {
	return []phraseRule{
		{`back-off pulling image|imagepullbackoff`, kubelet,
			"images: pulling failed; the next try comes after 10 s, doubled each time up to 5 min",
			"the event Failed before it has the registry's words: mend the name, the pull secret or the way to the " +
				"registry"},
		{`errimagepull|failed to pull(?: and unpack)? image`, kubelet, "images: the registry or the unpacking refused",
			"the text after it is the runtime's: not found is a wrong name or tag, unauthorized a missing " +
				"imagePullSecret, timeout the network"},
		{`errimageneverpull|is not present with pull policy of never`, kubelet,
			"images: imagePullPolicy Never and the image is not on the node",
			"bring it with `gantry image import`, or another pull policy"},
		{`invalidimagename|couldn't parse image`, kubelet,
			"images: the name is not of the form [HOST/]NAME[:TAG][@DIGEST]", "correct spec.containers[].image"},
	}
}

func running() []phraseRule {
	return []phraseRule{
		{`crashloopbackoff|back-off \S+ restarting failed container|back-off restarting failed container`, kubelet,
			"restart: the container ended and restartPolicy wants it again; it waits 10 s, doubled each time up to 5 " +
				"min, forgotten after 10 min of running",
			"`kubectl logs POD --previous` has its last words; the exit code is in Last State"},
		{`liveness probe failed`, kubelet,
			"probes: after failureThreshold failures in a row the container is killed and restarted",
			"mend the program, or give it time: timeoutSeconds, periodSeconds, failureThreshold, a startupProbe"},
		{`readiness probe failed`, kubelet,
			"probes: after failureThreshold failures in a row the Pod is not Ready and gets no traffic from " +
				"Services; nothing is restarted", "mend what the probe asks, or its path and port"},
		{`startup probe failed`, kubelet,
			"probes: until it succeeds the others wait; after failureThreshold failures the container is killed and " +
				"restarted", "raise failureThreshold: it times periodSeconds is what the start may take"},
		{`oomkilled`, "kernel",
			"memory cgroup: the container came to its memory limit and the kernel killed it (exit code 137)",
			"raise limits.memory, or make the program use less"},
		{`failedpoststarthook|poststarthook failed`, kubelet,
			"hooks: postStart failed, so the container is killed and its restartPolicy decides",
			"mend the hook; it runs beside the container's program, not after it is ready"},
		{`failedprestophook|prestophook failed`, kubelet,
			"hooks: preStop failed or used the grace up; TERM is sent all the same",
			"mend the hook, or raise terminationGracePeriodSeconds"},
	}
}

func starting() []phraseRule {
	return []phraseRule{
		{`containercreating`, kubelet, "start: sandbox, volumes or image are not there yet",
			"events name the step; `gantry why pod/NAME` since when"},
		{`podinitializing`, kubelet, "start: an init container has not ended yet; they run one after another",
			"`kubectl logs POD -c INIT-CONTAINER`"},
		{`failedcreatepodsandbox|failed to create pod sandbox`, "container runtime",
			"RunPodSandbox: the runtime or the network plugin it calls refused",
			"the text after it is the runtime's; a network that is full or missing is the commonest"},
		{`networkpluginnotready|network is not ready|cni plugin not initialized`, "container runtime",
			"Status: the runtime finds no network configuration, so Pods without hostNetwork wait",
			"install or mend the CNI plugin; look into /etc/cni/net.d"},
		{`mountvolume\.setup failed|failedmount|unable to attach or mount volumes`, kubelet,
			"volumes: containers start only when every volume is mounted",
			"the text after it names volume and reason: a missing Secret or ConfigMap has to be made, a server be " +
				"reached"},
		{`createcontainerconfigerror|couldn't find key \S+|(?:configmap|secret) "[^"]*" not found`, kubelet,
			"start: a variable or file comes from a ConfigMap or Secret that is not there, or lacks the key",
			"make it, correct the name, or set optional: true; it is tried again by itself"},
		{`image will run as root|container has runasnonroot`, kubelet,
			"security context: runAsNonRoot is set and the image's user is root or not a number",
			"set runAsUser, or build the image with a numeric USER"},
		{`runcontainererror|createcontainererror|starterror`, "container runtime",
			"CreateContainer or StartContainer: the runtime refused, often as the command is not in the image",
			"compare command with what the image has"},
		{`outofcpu|outofmemory|outofpods|node didn't have enough resource: \w+`, kubelet,
			"admission: the Pod was bound here and does not fit beside what runs; it fails",
			"let its controller make another; two schedulers, or nodeName written by hand, do this"},
		{`podfeatureunsupported|requires node features that are not available`, kubelet,
			"admission: the node does not declare a feature that the Pod needs (KEP-5328)",
			"use a newer node, or do without"},
	}
}

func ending() []phraseRule {
	return []phraseRule{
		{`(?:the )?node had condition: ?\[?\w+\]?`, kubelet,
			"node pressure: a threshold of evictionHard or evictionSoft was crossed; Pods that use more than they " +
				"ask for go first, by priority, then by excess",
			"ask for what the Pod uses (requests), free the resource on the node, or move the threshold"},
		{`(?:the )?node was low on resource: [\w.-]+`, kubelet,
			"node pressure: the Pod was chosen by its use over its request and its priority",
			"ask for what the Pod uses (requests), or free the resource on the node"},
		{`usage of emptydir volume "[^"]*" exceeds the limit|exceeds the total limit of containers|exceeded its ` +
			`local ` +
			`ephemeral storage limit`, kubelet,
			"local storage: the Pod wrote more than its own limit; no other Pod's use matters",
			"raise sizeLimit or limits.ephemeral-storage, or write less"},
		{`deadlineexceeded|active on the node longer than the specified deadline`, kubelet,
			"deadline: activeDeadlineSeconds is over", "raise it, in the Pod or in the Job's template"},
		{`taintmanagereviction|marking for deletion pod`, controller,
			"taint eviction: the node got a NoExecute taint that the Pod does not tolerate, or no longer",
			"`kubectl describe node` names the taint; not-ready and unreachable mean that the node is silent"},
		{`cannot evict pod as it would violate the pod's disruption budget`, apiserver,
			"eviction: a PodDisruptionBudget allows no disruption now",
			"wait until more of its Pods are Ready, or change the budget"},
		{`node is not ready|nodenotready`, controller,
			"node lifecycle: the kubelet has not renewed its lease for 40 s, or says itself that it is not ready",
			"`gantry why node/NAME`"},
		{`exceeded grace period`, kubelet,
			"termination: the container ignored TERM until terminationGracePeriodSeconds were over and was killed",
			"let the program end on TERM; a shell as process 1 does not pass it on"},
	}
}

func writing() []phraseRule {
	return []phraseRule{
		{`exceeded quota: \S+`, apiserver, "ResourceQuota: the namespace's use and this object are more than the quota",
			"`kubectl describe quota`: raise it, or free some"},
		{`violates podsecurity "[^"]*"`, apiserver,
			"PodSecurity: the namespace's label enforces a level that the Pod breaks; each break is named",
			"set what it names in securityContext, or another level for the namespace"},
		{`user "[^"]*" cannot \w+ resource`, apiserver, "RBAC: no role of the user allows it",
			"a Role with that verb and resource, and a RoleBinding; `kubectl auth can-i` checks"},
		{`error looking up service account \S+`, apiserver,
			"ServiceAccount admission: a Pod's account has to be there when the Pod is created",
			"create the ServiceAccount, or name one that is there in serviceAccountName"},
		{`the object has been modified; please apply your changes to the latest version`, apiserver,
			"optimistic locking: somebody wrote the object after it was read (metadata.resourceVersion)",
			"read it again and write once more; controllers do so by themselves, so that one such line is no trouble"},
		{`no matches for kind "[^"]*" in version "[^"]*"`, "client",
			"discovery: the API server does not serve that kind in that version",
			"`kubectl api-resources` lists what is served: another apiVersion, or a CustomResourceDefinition that is " +
				"to be installed first"},
		{`field is immutable`, apiserver, "validation: that field may not change once the object is there",
			"delete the object and make it anew, or leave the field as it was"},
		{`failed calling webhook "[^"]*"`, apiserver,
			"admission: a webhook with failurePolicy Fail could not be asked; the text after it says why",
			"mend what serves it (the Service in its URL), or failurePolicy Ignore while it is away"},
		{`provided port is already allocated`, apiserver,
			"Services: another Service has that nodePort; each is given out once in the cluster",
			"choose another nodePort, or leave it out: the API server then chooses a free one"},
		{`field can not be less than (?:previous value|status\.capacity)`, apiserver,
			"PersistentVolumeClaims: a volume grows and never shrinks",
			"keep the size, or make a smaller claim and copy the data"},
		{`denied request: no params found for policy binding|no params found for policy binding`, apiserver,
			"admission policy: the parameters that its binding names are not there (parameterNotFoundAction Deny)",
			"create what paramRef of the ValidatingAdmissionPolicyBinding names"},
		{`admission webhook "[^"]*" denied the request`, "webhook",
			"admission: a webhook of the cluster refused; the text after it is its own",
			"ask who runs the webhook; `gantry trace create -f FILE` shows which one it was"},
	}
}
