package apiserver

import "regexp"

// isUpstreamPath says that upstream names a field by a path of its own making. Such paths are kept,
// as people find them in old answers.
func isUpstreamPath(path string) bool { return upstreamPaths.MatchString(path) }

var upstreamPaths = regexp.MustCompile(`(?:` +
	// the item of a list is left out
	`(?:volumes\[\d+\]|sources\[\d+\])\.downwardAPI\.(?:path|mode|fieldRef|resourceFieldRef)|\.projected\.path|` +
	`\.volumeMounts\.(?:mountPropagation|recursiveReadOnly|subPath)|` +
	`scopeSelector\.matchExpressions\.(?:scopeName|operator|values)|\.namespace$|\.adminAccess$|` +
	// a field by another name, or in another place
	`^metadata\.(?:taints|annotations|nodeSwapStatus)|` +
	`^status\.conditions\[\d+\]\.Type$|\.Host(?:PID|IPC)$|\.downwarAPI$|` +
	`^spec\.LoadBalancerSourceRanges|\.persistentDisk|\.iscsi\.(?:initiatorname|targetportal)|` +
	`^spec\.persistentvolumesource$|` +
	`\.extendedResourceClaimStatus\.requestName$|` +
	`\.cephFS$|resourceRules\.operations$|^status\.Phase$|Statuses\[\d+\]\.linux\.|^overhead\.limits|` +
	`^spec\.attachedRequired$|\.csi\.name$|^nodeAffinity$|^volumeMode$|\{topologyKey, whenUnsatisfiable\}|` +
	// the quantity without its list, and the other way round
	`resources\[storage\]$|\.resources\.containers\[` +
	`)`)
