// Reads a Redfish fabric manager with gofish, and prints as JSON the objects that clients made.
//
// Arguments: URL, user, password, file of the CA certificate.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"
)

type chunk struct {
	Name, Description, State string
	MiB                      int
}

type device struct {
	DurableName, Chunk string
	MiB                int
}

type connection struct {
	Name, Type, State, Chunk, Initiator, Target string
}

type task struct {
	State, Operation, Target, Body string
}

type found struct {
	Systems     map[string]string // host name -> UUID
	Endpoints   []string
	Domains     map[string][]int // ID -> size, smallest chunk, increment
	Chunks      []chunk
	Devices     []device
	Connections []connection
	Tasks       []task
}

func main() {
	result, err := walk(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		os.Exit(1)
	}
}

func walk(url, user, password, ca string) (*found, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	client, err := gofish.Connect(gofish.ClientConfig{
		Endpoint: url, Username: user, Password: password, HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		return nil, err
	}
	defer client.Logout()
	result := &found{Systems: map[string]string{}, Domains: map[string][]int{}}
	for _, read := range []func(*gofish.APIClient, *found) error{readSystems, readMemory, readFabrics, readTasks} {
		if err := read(client, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func readSystems(client *gofish.APIClient, result *found) error {
	systems, err := client.Service.Systems()
	for _, system := range systems {
		result.Systems[system.HostName] = system.UUID
	}
	return err
}

func readMemory(client *gofish.APIClient, result *found) error {
	chassis, err := client.Service.Chassis()
	if err != nil {
		return err
	}
	for _, each := range chassis {
		domains, err := each.MemoryDomains()
		if err != nil {
			return err
		}
		for _, domain := range domains {
			result.Domains[domain.ID] = []int{
				domain.MemorySizeMiB, domain.MinMemoryChunkSizeMiB, domain.MemoryChunkIncrementMiB,
			}
			// gofish has no accessor for the chunks of a domain.
			chunks, err := redfish.ListReferencedMemoryChunks(client, domain.ODataID+"/MemoryChunks")
			if err != nil {
				return err
			}
			for _, each := range chunks {
				made := chunk{Name: each.Name, Description: each.Description, MiB: each.MemoryChunkSizeMiB}
				made.State = string(each.Status.State)
				result.Chunks = append(result.Chunks, made)
			}
			devices, err := domain.CXLLogicalDevices()
			if err != nil {
				return err
			}
			for _, each := range devices {
				chunks, err := each.MemoryChunks()
				if err != nil {
					return err
				}
				made := device{DurableName: each.Identifiers[0].DurableName, MiB: each.MemorySizeMiB}
				made.Chunk = chunks[0].Name
				result.Devices = append(result.Devices, made)
			}
		}
	}
	return nil
}

func readFabrics(client *gofish.APIClient, result *found) error {
	fabrics, err := client.Service.Fabrics()
	if err != nil {
		return err
	}
	for _, fabric := range fabrics {
		endpoints, err := fabric.Endpoints()
		if err != nil {
			return err
		}
		for _, endpoint := range endpoints {
			result.Endpoints = append(result.Endpoints, endpoint.ID)
		}
		// gofish v0.20.0 cannot read CXL switches: it takes the number MaxVCSsSupported for a string.
		connections, err := fabric.Connections()
		if err != nil {
			return err
		}
		for _, each := range connections {
			made, err := readConnection(client, each)
			if err != nil {
				return err
			}
			result.Connections = append(result.Connections, *made)
		}
	}
	return nil
}

func readConnection(client *gofish.APIClient, each *redfish.Connection) (*connection, error) {
	made := &connection{Name: each.Name, Type: string(each.ConnectionType), State: string(each.Status.State)}
	initiators, err := each.InitiatorEndpoints()
	if err != nil {
		return nil, err
	}
	targets, err := each.TargetEndpoints()
	if err != nil {
		return nil, err
	}
	made.Initiator, made.Target = initiators[0].ID, targets[0].ID
	for _, info := range each.MemoryChunkInfo {
		chunk, err := redfish.GetMemoryChunks(client, info.MemoryChunk.ODataID)
		if err != nil {
			return nil, err
		}
		made.Chunk = chunk.Name
	}
	return made, nil
}

func readTasks(client *gofish.APIClient, result *found) error {
	tasks, err := client.Service.Tasks()
	for _, each := range tasks {
		made := task{State: string(each.TaskState), Operation: each.Payload.HTTPOperation}
		made.Target, made.Body = each.Payload.TargetURI, each.Payload.JSONBody
		result.Tasks = append(result.Tasks, made)
	}
	return err
}
