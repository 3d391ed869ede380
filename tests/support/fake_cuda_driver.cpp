// Stands for the driver's library (libcuda.so.1) where there is none, so that cuDNN goes on to make code for a GPU that
// is described to it: it takes whatever code it is given, and runs nothing.
extern "C" {

int cuInit(unsigned) { return 34; }  // CUDA_ERROR_STUB_LIBRARY: there is no device
int cuDriverGetVersion(int* version) { return *version = 13000, 34; }
int cuDeviceGetCount(int* count) { return *count = 0, 34; }
int cuGetErrorString(int, const char** text) { return *text = "none", 0; }
int cuGetErrorName(int, const char** text) { return *text = "none", 0; }

namespace {
int loaded = 0;
int take(void** handle) { return *handle = &loaded, 0; }
}  // namespace

int cuLibraryLoadData(void** library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  return take(library);
}
int cuLibraryLoadFromFile(void** library, const char*, int*, void**, unsigned, int*, void**, unsigned) {
  return take(library);
}
int cuLibraryGetKernel(void** kernel, void*, const char*) { return take(kernel); }
int cuLibraryUnload(void*) { return 0; }
int cuKernelSetAttribute(int, int, void*, int) { return 0; }
int cuKernelGetAttribute(int* value, int, void*, int) { return *value = 0, 0; }
int cuModuleLoadData(void** module, const void*) { return take(module); }
int cuModuleLoadDataEx(void** module, const void*, unsigned, int*, void**) { return take(module); }
int cuModuleLoadFatBinary(void** module, const void*) { return take(module); }
int cuModuleGetFunction(void** function, void*, const char*) { return take(function); }
int cuModuleUnload(void*) { return 0; }
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuFuncGetAttribute(int* value, int, void*) { return *value = 0, 0; }

// cuDNN looks these up as it starts; nothing here should come so far as to call them.
#define ORRERY_NOT_THERE(name) \
  int name() { return 801; }  // CUDA_ERROR_NOT_SUPPORTED
ORRERY_NOT_THERE(cuCtxGetCurrent)
ORRERY_NOT_THERE(cuCtxGetDevice)
ORRERY_NOT_THERE(cuCtxGetLimit)
ORRERY_NOT_THERE(cuCtxPopCurrent)
ORRERY_NOT_THERE(cuCtxPushCurrent)
ORRERY_NOT_THERE(cuDeviceGet)
ORRERY_NOT_THERE(cuDeviceGetAttribute)
ORRERY_NOT_THERE(cuDevicePrimaryCtxRelease)
ORRERY_NOT_THERE(cuDevicePrimaryCtxReset)
ORRERY_NOT_THERE(cuDevicePrimaryCtxRetain)
ORRERY_NOT_THERE(cuLaunchCooperativeKernel)
ORRERY_NOT_THERE(cuLaunchKernel)
ORRERY_NOT_THERE(cuLaunchKernelEx)
ORRERY_NOT_THERE(cuLinkAddData)
ORRERY_NOT_THERE(cuLinkAddData_v2)
ORRERY_NOT_THERE(cuLinkAddFile_v2)
ORRERY_NOT_THERE(cuLinkComplete)
ORRERY_NOT_THERE(cuLinkCreate)
ORRERY_NOT_THERE(cuLinkCreate_v2)
ORRERY_NOT_THERE(cuLinkDestroy)
ORRERY_NOT_THERE(cuMemcpyDtoH_v2)
ORRERY_NOT_THERE(cuModuleGetGlobal_v2)
ORRERY_NOT_THERE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
ORRERY_NOT_THERE(cuOccupancyMaxPotentialClusterSize)
ORRERY_NOT_THERE(cuStreamGetCtx)
ORRERY_NOT_THERE(cuStreamSynchronize)
ORRERY_NOT_THERE(cuTensorMapEncodeTiled)
}
