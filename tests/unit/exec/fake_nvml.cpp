// A management library of one GPU, for the test of power: its counter gains 1500 mJ each time it is read.

#include <cstring>

namespace {
int the_gpu = 0;
unsigned long long counter = 1000;
}  // namespace

extern "C" {
int nvmlInit_v2();
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device);
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules);

int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strcmp(uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff") != 0) return 6;  // NVML_ERROR_NOT_FOUND
  *device = &the_gpu;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (device != &the_gpu) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  *millijoules = counter += 1500;
  return 0;
}
}
